"""The `tf-disc` command and the programs that write documentation pages."""
