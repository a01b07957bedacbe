"""What every group of measurements stands on: processes, the service under test, load, figures and their report."""
