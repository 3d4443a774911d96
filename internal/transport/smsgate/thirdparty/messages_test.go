package thirdparty

import "testing"

// A program that sends one message at a time does not wait behind the costly requests of its company.
func TestMessageToOneRecipientNeedsNoSlot(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{"phoneNumbers":["13800138000"],"textMessage":{"text":"x"}}`:              false,
		`{"phoneNumbers":[],"message":"x"}`:                                        false,
		`{"message":"x"}`:                                                          false,
		`{"phoneNumbers":["13800138000","13800138001"],"message":"x"}`:             true,
		`{"phoneNumbers":["13800138000"],"phoneNumbers":["1","2"]}`:                true, // as the message is read
		`{"PhoneNumbers":[1,{"a":["13800138000"]}],"textMessage":{"text":"x"}}`:    true,
		`{"phoneNumbers":"13800138000,13800138001","textMessage":{"text":"x"}}`:    true, // refused later: what it is shows then
		`{"phoneNumbers":["13800138000","13800138001"],"textMessage":{"text":"x"}`: true,
	} {
		if got := isToMany(nil, []byte(body)); got != want {
			t.Errorf("%s: takes a turn: %t, want %t", body, got, want)
		}
	}
}
