"""What frameworks run beside products and collectives: copies, and elementwise operations one by one."""
