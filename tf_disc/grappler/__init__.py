"""The pass without Grappler around it: a graph in, the graph with launches out."""

from tf_disc.grappler.offline import optimize_graph

__all__ = ["optimize_graph"]
