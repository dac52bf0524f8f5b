"""What a serving row states, in the terms of a scenario: number formats, lengths, layout, options of the engine."""
