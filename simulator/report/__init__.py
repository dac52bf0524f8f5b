"""Results, specs and profiles drawn for people and for other tools; each form is a module, imported when used."""
