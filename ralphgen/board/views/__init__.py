"""What the board shows: values made from the project, its rows and its sessions."""
