"""What people look at: reports, the explorer, pictures of a graph."""
