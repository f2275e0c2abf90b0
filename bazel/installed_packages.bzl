"""Repositories made from Python packages that are installed already: nothing is downloaded."""

def _python(ctx, program):
    python = ctx.os.environ.get("TF_DISC_PYTHON", "python3")
    result = ctx.execute([python, "-c", program], environment = {"TF_CPP_MIN_LOG_LEVEL": "3"})
    if result.return_code != 0:
        fail("%s: %s. Set TF_DISC_PYTHON to a Python that has it." % (python, result.stderr))
    return result.stdout.strip()

_FIND_TENSORFLOW = """
import importlib.util as u
print(u.find_spec("tensorflow").submodule_search_locations[0])
"""

_TENSORFLOW_BUILD = """
cc_library(
    name = "tensorflow",
    srcs = ["libtensorflow_cc.so.2", "libtensorflow_framework.so.2"],
    hdrs = glob(["include/**"]),
    # `includes` makes them system headers: TensorFlow's own warn by the thousand.
    includes = ["include"],
    defines = ["_GLIBCXX_USE_CXX11_ABI=1", "EIGEN_MAX_ALIGN_BYTES=64"],
    visibility = ["//visibility:public"],
)
"""

def _installed_tensorflow(ctx):
    folder = _python(ctx, _FIND_TENSORFLOW)
    for name in ["include", "libtensorflow_cc.so.2", "libtensorflow_framework.so.2"]:
        ctx.symlink(folder + "/" + name, name)
    ctx.file("BUILD", _TENSORFLOW_BUILD)

installed_tensorflow = repository_rule(
    implementation = _installed_tensorflow,
    environ = ["TF_DISC_PYTHON"],
    local = True,
)

_FIND_ONEDNN = """
import importlib.metadata as m
for file in m.files("onednn-devel-cpu-gomp"):
    if str(file).endswith("include/dnnl.h"):
        print(file.locate().resolve().parent)
"""

_ONEDNN_BUILD = """
cc_library(
    name = "headers",
    hdrs = glob(["include/**/*.h*"]),
    includes = ["include"],
    visibility = ["//visibility:public"],
)
"""

def _installed_onednn(ctx):
    folder = _python(ctx, _FIND_ONEDNN)
    for name in ctx.execute(["ls", folder]).stdout.splitlines():
        if name == "oneapi" or name.startswith("dnnl"):
            ctx.symlink(folder + "/" + name, "include/" + name)
    ctx.file("BUILD", _ONEDNN_BUILD)

installed_onednn = repository_rule(
    implementation = _installed_onednn,
    environ = ["TF_DISC_PYTHON"],
    local = True,
)
