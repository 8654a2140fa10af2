"""Studies: grids of runs, the policies they learn first, and their summaries."""
