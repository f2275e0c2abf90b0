"""The option table: parsing, errors, the environment, and the page made from it."""

from pathlib import Path

import pytest

from tf_disc import config
from tf_disc.config import BY_NAME, OPTIONS
from tf_disc.errors import OptionError
from tf_disc.tools import options_page

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_default_survives_its_own_text(option):
    assert option.parse(option.text(option.default)) == option.default


@pytest.mark.parametrize(
    ("name", "value", "parsed"),
    [
        ("mode", "sync", "sync"),
        ("min_cluster_size", "5", 5),
        ("compile_timeout_s", "2.5", 2.5),
        ("compile_timeout_s", 3, 3.0),
        ("deny_ops", "Softmax, Erf,", ("Softmax", "Erf")),
        ("deny_ops", ["Softmax"], ("Softmax",)),
        ("enabled", "off", False),
        ("enabled", True, True),
        ("dump", "", ""),
    ],
)
def test_parse(name, value, parsed):
    assert BY_NAME[name].parse(value) == parsed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mode", "fast"),
        ("mode", 1),
        ("min_cluster_size", 0),
        ("min_cluster_size", 2.5),
        ("min_cluster_size", True),
        ("compile_timeout_s", "nan"),
        ("compile_timeout_s", -1),
        ("weight_cache_mb", "much"),
        ("deny_ops", 3),
        ("deny_ops", ["a,b"]),
        ("enabled", "maybe"),
    ],
)
def test_wrong_values_name_option_and_environment(name, value):
    with pytest.raises(OptionError) as error:
        BY_NAME[name].parse(value)
    assert f"option {name} " in str(error.value)
    assert BY_NAME[name].environment in str(error.value)
    assert "Nothing was changed" in str(error.value)


def test_unknown_option_lists_the_known_ones():
    with pytest.raises(OptionError, match=r"no option 'modes'; the options are enabled, mode"):
        config.parse_options({"modes": "sync"})


def test_folders_become_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert BY_NAME["dump"].parse("d") == str(tmp_path / "d")


def test_environment():
    found = config.environment_options({"TF_DISC_MODE": "sync", "TF_DISC_DUMP": "", "TF_DISC": "0"})
    assert found == {"mode": "sync"}
    with pytest.raises(OptionError, match="TF_DISC_MODE"):
        config.environment_options({"TF_DISC_MODE": "slow"})


@pytest.mark.parametrize(("text", "enabled"), [(None, True), ("", True), ("1", True), ("0", False)])
def test_enabled_by_environment(text, enabled):
    environment = {} if text is None else {"TF_DISC": text}
    assert config.enabled_by_environment(environment) is enabled


def test_names_and_environment_names_are_unique():
    assert len(BY_NAME) == len(OPTIONS)
    assert len({option.environment for option in OPTIONS}) == len(OPTIONS)


def test_the_page_is_current():
    assert (ROOT / options_page.PAGE).read_text(encoding="utf-8") == options_page.page(), (
        "docs/options.md is out of date: run `make docs`"
    )
