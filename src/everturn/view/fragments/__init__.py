"""Every text that everturn can put into a model's context, one small file each."""
