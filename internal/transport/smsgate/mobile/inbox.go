package mobile

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"lksms/gen/mobileq"
	"lksms/internal/dispatch/received"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/secret"
)

// These are the events that a phone posts for received messages.
const (
	eventReceived     = "sms:received"
	eventDataReceived = "sms:data-received"
)

// maxClockSkew is the maximum difference between the clocks of a phone and of the server.
const maxClockSkew = 5 * time.Minute

// keyOwner returns the owner of the encrypted key of a phone.
func keyOwner(deviceNo string) string { return "phone/" + deviceNo }

// SigningKey returns the key with which a phone signs received messages. It creates the key if necessary, also instead of a key that cannot be decrypted. The key is
// empty if the server cannot encrypt secrets: then the phone cannot post messages.
func (s *Service) SigningKey(ctx context.Context, p Phone) (string, error) {
	if key, err := s.Secrets.Decrypt(p.encryptedKey, keyOwner(p.DeviceNo)); err == nil {
		return key, nil
	}
	encrypted, err := s.Secrets.Encrypt(rand.Text(), keyOwner(p.DeviceNo))
	if errors.Is(err, secret.ErrNoKey) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("encrypt key of phone: %w", err)
	}
	err = s.q.PhoneInboxPut(ctx, mobileq.PhoneInboxPutParams{SenderID: p.senderID, DeviceNo: p.DeviceNo, SigningKey: encrypted, Before: p.encryptedKey})
	if err != nil {
		return "", fmt.Errorf("store key of phone: %w", err)
	}
	row, err := s.q.PhoneInbox(ctx, p.DeviceNo)
	if err != nil {
		return "", postgres.Wrap("read key of phone", err, fault.New(fault.Forbidden, fault.AuthForbidden))
	}
	return s.Secrets.Decrypt(row.SigningKey, keyOwner(p.DeviceNo))
}

// Hooked records that a phone has read the address of its posts.
func (s *Service) Hooked(ctx context.Context, p Phone) error {
	return postgres.Wrap("record address of phone", s.q.PhoneHooked(ctx, mobileq.PhoneHookedParams{SenderID: p.senderID, DeviceNo: p.DeviceNo}), nil)
}

// Post is a post of the app for one of its events.
type Post struct {
	Body                 []byte
	Signature, Timestamp string // headers of the post
}

// posted is the body of a Post. The app posts the same structure for all events.
type posted struct {
	DeviceID string `json:"deviceId"`
	Event    string `json:"event"`
	Payload  struct {
		MessageID   scalar `json:"messageId"`
		Sender      scalar `json:"sender"`
		PhoneNumber scalar `json:"phoneNumber"` // older name of sender
		Recipient   scalar `json:"recipient"`
		SimNumber   scalar `json:"simNumber"`
		Message     scalar `json:"message"`
		Data        scalar `json:"data"` // base64
		ReceivedAt  scalar `json:"receivedAt"`
	} `json:"payload"`
}

// scalar is a JSON value as text; null is empty. Apps of other versions post numbers instead of strings, or the reverse. The app drops a post that the server
// refuses, so the type of a field must not cause a refusal.
type scalar string

func (s *scalar) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) != nil { // null sets the empty text
		text = string(raw)
	}
	*s = scalar(text)
	return nil
}

// Receive stores the received message of a post. It ignores other events, and data that is not text: after an error, the app would repeat its post. It returns
// the sender of the phone, and whether a message was stored. Faults: request.malformed; auth.required if the signature is wrong, or if the clock of the phone
// differs by more than maxClockSkew.
func (s *Service) Receive(ctx context.Context, post Post) (senderNo string, isStored bool, err error) {
	var p posted
	if err := json.Unmarshal(post.Body, &p); err != nil {
		return "", false, fault.New(fault.Malformed, fault.RequestMalformed)
	}
	if p.DeviceID == "" || !postgres.IsText(p.DeviceID) {
		return "", false, access.ErrRequired
	}
	inbox, err := s.q.PhoneInbox(ctx, p.DeviceID)
	if err != nil {
		return "", false, postgres.Wrap("find phone of post", err, access.ErrRequired)
	}
	key, err := s.Secrets.Decrypt(inbox.SigningKey, keyOwner(p.DeviceID))
	if err != nil {
		return "", false, fmt.Errorf("open key of phone: %w", err)
	}
	if !post.isSigned(key, time.Now()) {
		return "", false, access.ErrRequired
	}
	m, isMessage := p.message()
	if !isMessage {
		return inbox.SenderNo, false, nil
	}
	m.Raw = string(post.Body)
	_, err = s.Received.Take(ctx, inbox.SenderNo, []received.Message{received.Fitting(m)})
	return inbox.SenderNo, err == nil, err
}

// isSigned reports whether the app signed a post with key, at a time near now.
func (p Post) isSigned(key string, now time.Time) bool {
	seconds, err := strconv.ParseInt(p.Timestamp, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > maxClockSkew {
		return false
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(p.Body)
	mac.Write([]byte(p.Timestamp))
	given, err := hex.DecodeString(p.Signature)
	return err == nil && hmac.Equal(given, mac.Sum(nil))
}

// message returns the received message of a post. isMessage is false for other events, and for data that is not text.
func (p posted) message() (m received.Message, isMessage bool) {
	in := p.Payload
	m = received.Message{
		From: string(cmp.Or(in.Sender, in.PhoneNumber)), To: string(in.Recipient), Content: string(in.Message), MessageNo: string(in.MessageID),
	}
	if sim, err := strconv.ParseInt(string(in.SimNumber), 10, 16); err == nil {
		m.SIM = int16(sim)
	}
	if at, err := time.Parse(time.RFC3339, string(in.ReceivedAt)); err == nil {
		m.ReceivedAt = &at
	}
	switch p.Event {
	case eventReceived:
		return m, true
	case eventDataReceived:
		data, err := base64.StdEncoding.DecodeString(string(in.Data))
		m.Content = string(data)
		return m, err == nil && isText(m.Content)
	default:
		return m, false
	}
}

// isText reports whether the data of a message is text: UTF-8 without control characters other than line breaks and tabs.
func isText(data string) bool {
	return utf8.ValidString(data) && !strings.ContainsFunc(data, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\r\n\t", r) })
}

// Export is a request to a phone to post received messages of a period again.
type Export struct{ Since, Until time.Time }

// AskExport asks the phones of senders to post the messages of a period again. It returns the number of phones. A phone posts only messages that its app has not
// posted yet.
func (s *Service) AskExport(ctx context.Context, senderNos []string, e Export) (int64, error) {
	n, err := s.q.PhoneExportAsk(ctx, mobileq.PhoneExportAskParams{SenderNos: senderNos, Since: e.Since, Until: e.Until})
	return n, postgres.Wrap("ask phones for messages", err, nil)
}

// endExport deletes the request to post messages again, after the phone got it. A request that was extended meanwhile stays.
func (s *Service) endExport(ctx context.Context, p Phone, e Export) error {
	err := s.q.PhoneExportDelete(ctx, mobileq.PhoneExportDeleteParams{SenderID: p.senderID, DeviceNo: p.DeviceNo, Since: e.Since, Until: e.Until})
	return postgres.Wrap("end request for messages", err, nil)
}

// RotateSecrets encrypts the keys of all phones again with the first key of box. It returns the number of changed keys.
func RotateSecrets(ctx context.Context, db *postgres.DB, box *secret.Box) (int, error) {
	q := mobileq.New(db)
	rows, err := q.PhoneKeys(ctx)
	if err != nil {
		return 0, postgres.Wrap("read keys of phones", err, nil)
	}
	return secret.RenewAll(box, rows, func(row mobileq.PhoneKeysRow) (encrypted, owner string) {
		return row.SigningKey, keyOwner(row.DeviceNo)
	}, func(row mobileq.PhoneKeysRow, renewed string) (int64, error) {
		return q.PhoneKeyReplace(ctx, mobileq.PhoneKeyReplaceParams{DeviceNo: row.DeviceNo, Before: row.SigningKey, Sealed: renewed})
	})
}
