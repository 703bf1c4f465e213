"""Everything that knows pytest-xdist; imported only where that plugin is active."""
