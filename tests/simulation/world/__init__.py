"""Virtual time, network and disks; the machines with controllers and brokers on them; what harms them."""
