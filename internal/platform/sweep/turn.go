package sweep

// InTurn orders the items of a round in which companies take turns. The items of each company begin with the item after the last one that was processed, so that
// each item of the company gets its turn. last contains the id of this item for each company. The items must be ordered by id.
func InTurn[T any](items []T, last map[int64]int64, of func(T) (companyID, id int64)) []T {
	var first, later []T
	for _, item := range items {
		if company, id := of(item); id > last[company] {
			first = append(first, item)
		} else {
			later = append(later, item)
		}
	}
	return append(first, later...)
}
