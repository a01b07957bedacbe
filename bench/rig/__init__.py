"""The common basis of all groups of measurements: processes, the service under test, load, figures and their report."""
