package mobile

import (
	"net/http"

	"lksms/internal/transport/httpapi/gate"
)

// receivedPath is the path to which phones post received messages.
const receivedPath = "/received"

// hook is a webhook in the format of the app.
type hook struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	Event string `json:"event"`
}

// webhooks returns the address to which the phone posts received messages: the address under which the phone reaches this server. The app reaches servers only
// with HTTPS. If the server cannot encrypt secrets, the phone would sign its posts with an unknown key, so the list is empty.
func (s *server) webhooks(w http.ResponseWriter, r *http.Request, phone Phone) error {
	key, err := s.phones.SigningKey(r.Context(), phone)
	if err != nil {
		return err
	}
	hooks := []hook{}
	if key != "" {
		address := "https://" + gate.Of(r.Context()).Address() + Prefix + receivedPath
		hooks = append(hooks, hook{"lksms-text", address, eventReceived}, hook{"lksms-data", address, eventDataReceived})
	}
	if err := s.phones.Hooked(r.Context(), phone); err != nil {
		return err
	}
	return write(w, http.StatusOK, hooks)
}

// received accepts a post of the app. The signature of the post proves its origin. The response follows the commit: otherwise the app repeats the post.
func (s *server) received(w http.ResponseWriter, r *http.Request) error {
	x := gate.Of(r.Context())
	senderNo, isStored, err := s.phones.Receive(r.Context(), Post{
		Body: x.Body.Raw, Signature: r.Header.Get("X-Signature"), Timestamp: r.Header.Get("X-Timestamp"),
	})
	if err != nil {
		return err
	}
	x.AddToLog("sender_no", senderNo, "is_stored", isStored)
	return write(w, http.StatusOK, struct{}{})
}
