"""Programs that show tf_disc at work."""
