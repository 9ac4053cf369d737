"""What a workgroup does → what one invocation of it does."""
