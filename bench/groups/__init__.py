"""One file for each group of figures. Each has FIGURES, and `measure(bench, program, note)`, which does one round."""
