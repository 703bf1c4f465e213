"""What is kept of a run: one file per trial, and the numbers made from them."""
