package jsonbody_test

import (
	"fmt"
	"testing"

	"lksms/internal/transport/httpapi/jsonbody"
)

// The items of a list are returned unchanged.
func TestItemsReturnsTextOfEachItem(t *testing.T) {
	for body, want := range map[string]string{
		`{"list":[]}`: `[]`,
		`{ "a" : {"list":[0]} , "list" : [ {"b": "]\",中"} ,1.50, [2,[3]] , "" ,null ] , "c":[4] }`: `[{"b": "]\",中"} 1.50 [2,[3]] "" null]`,
		`{"\u006cist":[1]}`: `[1]`,
		`{"list":{"0":1}}`:  `[]`,
		`{"list":null}`:     `[]`,
		`{"a":[1]}`:         `[]`,
		`["list",[1]]`:      `[]`,
		`"list"`:            `[]`,
		``:                  `[]`,
	} {
		var texts []string
		for _, item := range jsonbody.Items([]byte(body), "list") {
			texts = append(texts, string(item))
		}
		if got := fmt.Sprint(texts); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}
