"""What decoders see: sets of bumps and stripes, and digits at all angles."""
