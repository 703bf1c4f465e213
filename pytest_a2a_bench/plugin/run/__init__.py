"""What one pytest process was asked to do: options, and the state of its run."""
