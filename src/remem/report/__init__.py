"""Reports of runs, studies and policies: tables, plots and HTML pages."""
