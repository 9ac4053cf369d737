"""What reads bytes that nobody checked, where its inputs come from, and how they are changed."""
