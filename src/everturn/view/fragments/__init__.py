"""Every text that everturn may ever put before a model, one small file each."""
