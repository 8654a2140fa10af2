"""Files: atomic writes, checksummed tensor files and the protocol of work folders."""
