"""A picture of a launch, from what Triton's interpreter does: `lab.draw_launch`."""
