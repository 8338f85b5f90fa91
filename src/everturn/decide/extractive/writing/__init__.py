"""Writing the nine sections: what each holds, how data is quoted, what fits."""
