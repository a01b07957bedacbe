"""A file for each group of figures, with FIGURES and `measure(session, program, note)`, which measures one round."""
