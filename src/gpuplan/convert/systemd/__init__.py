"""What systemd runs at boot on a node."""
