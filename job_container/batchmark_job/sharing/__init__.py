"""Several tasks at once on one device: how much all of them get done, and what each suffers."""
