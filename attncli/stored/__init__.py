"""Files that others wrote: JSON objects, and safetensors without torch; believed only as far as the file bears them out."""
