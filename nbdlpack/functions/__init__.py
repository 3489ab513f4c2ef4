"""The public functions, one module for each section of the array API standard, where there is one for them."""
