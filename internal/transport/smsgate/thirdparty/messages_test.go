package thirdparty

import "testing"

// A program that sends single messages does not wait for the costly requests of its company.
func TestMessageToOneRecipientDoesNotWaitForCostlyRequests(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{"phoneNumbers":["13800138000"],"textMessage":{"text":"x"}}`:              false,
		`{"phoneNumbers":[],"message":"x"}`:                                        false,
		`{"message":"x"}`:                                                          false,
		`{"phoneNumbers":["13800138000","13800138001"],"message":"x"}`:             true,
		`{"phoneNumbers":["13800138000"],"phoneNumbers":["1","2"]}`:                true, // parsed in the same way as the message itself
		`{"PhoneNumbers":[1,{"a":["13800138000"]}],"textMessage":{"text":"x"}}`:    true,
		`{"phoneNumbers":"13800138000,13800138001","textMessage":{"text":"x"}}`:    true, // rejected later by the parser of messages
		`{"phoneNumbers":["13800138000","13800138001"],"textMessage":{"text":"x"}`: true,
	} {
		if got := isToMany(nil, []byte(body)); got != want {
			t.Errorf("%s: takes a turn: %t, want %t", body, got, want)
		}
	}
}
