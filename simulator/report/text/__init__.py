"""Words, numbers, scales and colours that every report shares, and the blocks of terminal pages."""
