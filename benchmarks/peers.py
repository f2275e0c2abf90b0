"""Who is compared: name, engine, precision, environment, and what the process has in its environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

#: The environment of the harness itself: TensorFlow and tf_disc.
OWN = "tensorflow"


@dataclass(frozen=True)
class Peer:
    """One way to run a model.

    `engine` names a module of benchmarks.engines; `options` go to it. `environment` names a virtual
    environment of benchmarks.environments. `reads` is what a model must be there as, and `micro`
    says whether the engine can trace functions of the micro suite. After each batch of calls the
    harness waits for `rest_s` seconds: threads that spin for more work would take the next peer's
    cores.
    """

    name: str
    engine: str
    precision: str = "f32"
    environment: str = OWN
    options: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    rest_s: float = 0.01

    @property
    def computes(self) -> bool:
        """Whether it gives the model's outputs: a floor does not."""
        return self.engine != "products"

    @property
    def reads(self) -> str:
        return "saved_model" if self.engine in ("tensorflow", "products") else "onnx"

    @property
    def micro(self) -> bool:
        return self.engine == "tensorflow"

    @property
    def compiles_per_shape(self) -> bool:
        """Whether each new size costs a compile on the calling thread."""
        return self.options.get("way", "").startswith("xla")


# Without them ZenDNN's plugin does nothing. They turn TensorFlow's remapper off, and so slow stock
# TensorFlow: no peer but zentf has them.
_ZEN = {"TF_ENABLE_ZENDNN_OPTS": "1"}
# Its OpenMP threads spin for 200 ms.
_ZEN_REST_S = 0.25

_ONE_THREAD = {"OMP_NUM_THREADS": "1"}

PEERS: tuple[Peer, ...] = (
    Peer("tf", "tensorflow"),
    Peer("tf-bf16", "tensorflow", "bf16"),
    Peer("xla", "tensorflow", options={"way": "xla"}),
    Peer("xla-graph", "tensorflow", options={"way": "xla-graph"}),
    Peer("zentf", "tensorflow", environment="zentf", variables=_ZEN, rest_s=_ZEN_REST_S),
    Peer(
        "zentf-bf16", "tensorflow", "bf16", environment="zentf", variables=_ZEN, rest_s=_ZEN_REST_S
    ),
    Peer("ort", "onnxruntime", environment="ort"),
    Peer("openvino", "openvino", environment="openvino"),
    Peer("openvino-bf16", "openvino", "bf16", environment="openvino"),
    Peer("products", "products", variables=_ONE_THREAD),
    Peer("products-bf16", "products", "bf16", variables=_ONE_THREAD),
    Peer("tf_disc", "tensorflow", options={"way": "tf_disc"}),
    Peer("tf_disc-bf16", "tensorflow", "bf16", options={"way": "tf_disc"}),
)

#: Names without a precision.
FAMILIES = tuple(peer.name for peer in PEERS if peer.precision == "f32")


def choose(names: Sequence[str], precisions: Sequence[str]) -> list[Peer]:
    """The peers named, in the order of PEERS, TensorFlow always among them: it is the oracle.

    A name without a precision stands for that peer in each of `precisions` that it has; one with a
    precision for itself. Raises ValueError for a name that there is not.
    """
    known = {peer.name: peer for peer in PEERS}
    for name in names:
        if name not in known:
            raise ValueError(f"there is no peer {name}; the peers are {', '.join(known)}")
    chosen = {"tf", *(name for name in names if name not in FAMILIES)}
    for family in names:
        if family in FAMILIES:
            own = [p for p in PEERS if p.name in (family, f"{family}-{p.precision}")]
            chosen |= {p.name for p in own if p.precision in precisions}
    return [peer for peer in PEERS if peer.name in chosen]
