"""The kit `acm`: process knowledge on stages, artifacts and reviews, to be read and not changed."""
