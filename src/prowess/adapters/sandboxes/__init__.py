"""What runs scripts: bubblewrap with all that the kernel offers, Landlock alone where chosen, and one that refuses."""
