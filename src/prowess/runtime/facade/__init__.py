"""The methods of ``Prowess``, a file a subject."""
