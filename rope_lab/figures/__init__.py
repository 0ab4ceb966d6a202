"""The notebooks' drawings and widgets, in one style."""
