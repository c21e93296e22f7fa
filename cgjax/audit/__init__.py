"""Your own data: what a table of factors covers, what it lacks, what the theorem says of it."""
