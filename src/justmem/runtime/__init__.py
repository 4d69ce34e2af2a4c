"""The running process: time limits, forks, private files, optional packages."""
