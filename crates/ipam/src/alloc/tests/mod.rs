mod claims;
mod model;
mod problems;
mod vectors;
