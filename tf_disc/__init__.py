"""tf_disc: compiles TensorFlow graphs for x86 CPUs."""
