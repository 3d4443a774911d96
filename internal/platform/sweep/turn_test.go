package sweep

import (
	"fmt"
	"testing"
)

func TestTheItemsOfACompanyBeginAfterItsLastItem(t *testing.T) {
	t.Parallel()
	items := [][2]int64{{1, 10}, {2, 11}, {1, 12}, {1, 13}, {2, 14}} // company, id
	of := func(item [2]int64) (int64, int64) { return item[0], item[1] }
	for last, want := range map[int64]string{
		0:  "[[1 10] [2 11] [1 12] [1 13] [2 14]]",
		10: "[[2 11] [1 12] [1 13] [2 14] [1 10]]",
		13: "[[2 11] [2 14] [1 10] [1 12] [1 13]]",
	} {
		if got := fmt.Sprint(InTurn(items, map[int64]int64{1: last}, of)); got != want {
			t.Errorf("after item %d: %s, want %s", last, got, want)
		}
	}
}
