"""Files that are seen whole or not at all, and a cache of such files."""
