"""The results of a run: one file per trial, and the statistics, baselines, comparisons and gates made from them."""
