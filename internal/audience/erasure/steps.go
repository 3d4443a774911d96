package erasure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lksms/gen/erasureq"
	"lksms/internal/audience/contact"
	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
)

// cancelledBy is the user name with which the waiting tasks to a person are cancelled.
const cancelledBy = "system:erasures"

// eraseContacts deletes the contacts of the person, including contacts that an import has added meanwhile. It also removes the person from requests that other
// programs have posted.
func (s *Service) eraseContacts(ctx context.Context, p *person) error {
	return s.count(ctx, p, nil, func(ctx context.Context) (c Counts, err error) {
		if err := contact.Lock(ctx, s.db, p.CompanyID); err != nil {
			return c, err
		}
		if len(p.AskedRecipients) > 0 {
			added, err := s.q.ErasedContacts(ctx, erasureq.ErasedContactsParams{
				CompanyID: p.CompanyID, UserIds: []string{}, Recipients: p.AskedRecipients, Most: maxContacts,
			})
			if err != nil {
				return c, fmt.Errorf("find contacts: %w", err)
			}
			for _, one := range added {
				if !slices.Contains(p.UserIds, one.UserID) {
					p.UserIds = append(p.UserIds, one.UserID)
				}
			}
			// The contacts are deleted below, so later passes cannot find their ids again.
			if err := s.q.ErasureUsers(ctx, erasureq.ErasureUsersParams{ID: p.ID, UserIds: p.UserIds}); err != nil {
				return c, fmt.Errorf("keep users: %w", err)
			}
		}
		n, err := s.q.ErasureContacts(ctx, erasureq.ErasureContactsParams{CompanyID: p.CompanyID, UserIds: p.UserIds})
		if err != nil {
			return c, fmt.Errorf("delete contacts: %w", err)
		}
		c.Contacts, c.Tags = n.Contacts, n.Tags
		defaults, err := s.q.ErasureDefaults(ctx, erasureq.ErasureDefaultsParams{CompanyID: p.CompanyID, Recipients: p.Recipients})
		if err != nil {
			return c, fmt.Errorf("delete default contents: %w", err)
		}
		c.DefaultContents = int64(len(defaults))
		if err := s.q.ErasureInbounds(ctx, erasureq.ErasureInboundsParams{CompanyID: p.CompanyID, Recipients: p.Recipients}); err != nil {
			return c, fmt.Errorf("take numbers out of inbounds: %w", err)
		}
		c.Changes, err = s.eraseAudit(ctx, p, []string{})
		return c, err
	})
}

func (s *Service) eraseAudit(ctx context.Context, p *person, jobs []string) (int64, error) {
	n, err := s.q.ErasureAudit(ctx, erasureq.ErasureAuditParams{
		CompanyID: p.CompanyID, Pseudonym: p.pseudonym, UserIds: p.UserIds, Recipients: p.Recipients, JobIds: jobs,
	})
	if err != nil {
		return 0, fmt.Errorf("erase audit: %w", err)
	}
	return n, nil
}

// refuseRows rejects the unsent rows of batches to the person.
func (s *Service) refuseRows(ctx context.Context, p *person) error {
	ids, err := s.q.ErasureBatches(ctx, erasureq.ErasureBatchesParams{CompanyID: p.CompanyID, OnlyOpen: true})
	if err != nil {
		return fmt.Errorf("find batches: %w", err)
	}
	for _, id := range ids {
		// The rows are counted when they are erased.
		if _, err := s.q.ErasureUnfed(ctx, erasureq.ErasureUnfedParams{BatchID: id, Recipients: p.Recipients, Addresses: p.addresses()}); err != nil {
			return fmt.Errorf("refuse rows of batch: %w", err)
		}
	}
	return nil
}

// eraseAnnouncements removes the person from notifications, so that they create no further task to the person.
func (s *Service) eraseAnnouncements(ctx context.Context, p *person) error {
	for n := portion; n == portion; {
		err := s.count(ctx, p, nil, func(ctx context.Context) (c Counts, err error) {
			ids, err := s.q.ErasureAnnouncements(ctx, erasureq.ErasureAnnouncementsParams{CompanyID: p.CompanyID, UserIds: p.UserIds, Portion: portion})
			if n = len(ids); err != nil || n == 0 {
				return c, err
			}
			notifications, err := s.q.ErasureAnnounced(ctx, ids)
			if err != nil {
				return c, err
			}
			c.Notifications = int64(len(notifications))
			return c, s.q.ErasureAnnouncement(ctx, erasureq.ErasureAnnouncementParams{Ids: ids, UserIds: p.UserIds})
		})
		if err != nil {
			return fmt.Errorf("erase notifications: %w", err)
		}
	}
	return nil
}

// eraseTasks cancels the waiting tasks, erases the ended tasks, and returns how many tasks senders hold.
func (s *Service) eraseTasks(ctx context.Context, p *person) (held int64, err error) {
	for after, n := "", portion; n == portion; {
		rows, err := s.q.ErasureTasks(ctx, erasureq.ErasureTasksParams{
			CompanyID: p.CompanyID, UserIds: p.UserIds, Recipients: p.Recipients, AskedRecipients: p.AskedRecipients, AfterID: after, Portion: portion,
		})
		if err != nil {
			return held, fmt.Errorf("find tasks: %w", err)
		}
		if n = len(rows); n == 0 {
			break
		}
		after = rows[n-1].TaskID
		p.hasFound = true // a task that is requeued meanwhile is found in the next pass
		open, err := s.erasePortion(ctx, p, rows)
		if err != nil {
			return held, err
		}
		held += open
	}
	return held, nil
}

func (s *Service) erasePortion(ctx context.Context, p *person, rows []erasureq.ErasureTasksRow) (held int64, err error) {
	ids := make([]string, len(rows))
	var renderings []int64
	var recent []string
	for i, row := range rows {
		ids[i] = row.TaskID
		if row.RenderingID != nil {
			renderings = append(renderings, *row.RenderingID)
		}
		if row.IsRecent {
			recent = append(recent, row.TaskID)
		}
	}
	if p.recent = recent; len(recent) > 0 { // before the tasks are erased, because erased tasks are not found again
		if err := s.eraseAnswers(ctx, p); err != nil {
			return 0, err
		}
	}
	var cancelled int
	if open, err := s.q.ErasureOpen(ctx, ids); err != nil {
		return 0, fmt.Errorf("find waiting tasks: %w", err)
	} else if len(open) > 0 {
		// A separate transaction, because it locks rows of the queue that senders wait for.
		err := s.count(ctx, p, nil, func(ctx context.Context) (c Counts, err error) {
			cancelled, err = s.tasks.CancelAll(ctx, open, cancelledBy)
			c.Cancelled = int64(cancelled)
			return c, err
		})
		if err != nil {
			return 0, err
		}
	}
	open, err := s.q.ErasureOpen(ctx, ids)
	if err != nil {
		return 0, fmt.Errorf("find tasks that senders hold: %w", err)
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(open, id) })
	if len(ids) == 0 {
		return int64(len(open)), nil
	}
	err = s.count(ctx, p, ids, func(ctx context.Context) (Counts, error) { return s.eraseEnded(ctx, p, ids, renderings) })
	return int64(len(open)), err
}

// eraseEnded erases tasks that have ended, in the transaction of ctx. A task that was requeued meanwhile keeps its recipient, so that the next pass finds it
// again.
func (s *Service) eraseEnded(ctx context.Context, p *person, ids []string, renderings []int64) (c Counts, err error) {
	if c.Receipts, c.Callbacks, err = s.eraseReceipts(ctx, p, ids); err != nil {
		return c, err
	}
	repeats, err := s.q.ErasureRepeats(ctx, ids)
	if err != nil {
		return c, fmt.Errorf("find repeated submissions: %w", err)
	}
	for _, act := range []struct {
		n  *int64
		do func() (int64, error)
	}{
		{&c.Submissions, func() (int64, error) {
			return s.q.ErasureSubmissions(ctx, erasureq.ErasureSubmissionsParams{Ids: repeats, Erased: result.Erased})
		}},
		{&c.DedupKeys, func() (int64, error) { return s.q.ErasureKeys(ctx, ids) }},
		{new(int64), func() (int64, error) { return s.q.ErasureSmsgateIDs(ctx, ids) }}, // has no field in Counts
		{&c.Reports, func() (int64, error) {
			return s.q.ErasureReports(ctx, erasureq.ErasureReportsParams{TaskIds: ids, Erased: result.Erased, Own: result.Own})
		}},
		{&c.Attempts, func() (int64, error) {
			return s.q.ErasureDeliveries(ctx, erasureq.ErasureDeliveriesParams{TaskIds: ids, Erased: result.Erased})
		}},
		{new(int64), func() (int64, error) { return s.q.ErasureWebhooks(ctx, ids) }}, // has no field in Counts
		{&c.Tasks, func() (int64, error) {
			return s.q.ErasureMessages(ctx, erasureq.ErasureMessagesParams{
				TaskIds: ids, Erased: result.Erased, Pseudonym: p.pseudonym, UserIds: p.UserIds,
			})
		}},
		{&c.Texts, func() (int64, error) {
			return s.q.ErasureRenderings(ctx, erasureq.ErasureRenderingsParams{Ids: renderings, Erased: result.Erased})
		}},
	} {
		if *act.n, err = act.do(); err != nil {
			return c, fmt.Errorf("erase tasks: %w", err)
		}
	}
	return c, nil
}

// eraseReceipts deletes the receipts of tasks that contain the person, and masks the person in the callbacks of these receipts. A callback may also contain
// receipts of other people.
func (s *Service) eraseReceipts(ctx context.Context, p *person, taskIDs []string) (receipts, callbacks int64, err error) {
	rows, err := s.q.ErasureReceipts(ctx, taskIDs)
	if err != nil {
		return 0, 0, fmt.Errorf("find receipts: %w", err)
	}
	var ids, callbackIDs []int64
	var spellings []string
	for _, address := range p.Recipients {
		spellings = append(spellings, address, strings.TrimPrefix(address, "+"), phone.AtHome(address))
	}
	for _, r := range rows {
		if p.isOf(r.Recipient) {
			ids, callbackIDs, spellings = append(ids, r.ID), append(callbackIDs, r.CallbackID), append(spellings, r.Recipient)
		}
	}
	if len(ids) == 0 {
		return 0, 0, nil
	}
	if receipts, err = s.q.ErasureReceiptsDelete(ctx, ids); err != nil {
		return 0, 0, fmt.Errorf("delete receipts: %w", err)
	}
	callbacks, err = s.q.ErasureCallbacks(ctx, erasureq.ErasureCallbacksParams{Ids: callbackIDs, Pattern: patternOf(spellings)})
	return receipts, callbacks, postgres.Wrap("erase callbacks", err, nil)
}

// notWithin returns a regular expression for a position that does not follow character, unless character ends an escape sequence of a URL or of JSON.
func notWithin(character string) string {
	return `(?:(?<!` + character + `)|(?<=%[0-9A-Fa-f]{2})|(?<=%25[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\[nrtbf]))`
}

// patternOf returns a PostgreSQL regular expression that matches the addresses in callbacks, which may be URL-encoded. It does not match parts of longer
// addresses.
func patternOf(addresses []string) string {
	var numbers, mails []string
	for _, address := range addresses {
		if address == "" {
			continue
		}
		both := regexp.QuoteMeta(address) + "|" + regexp.QuoteMeta(url.QueryEscape(address))
		if strings.Contains(address, "@") {
			mails = append(mails, both)
		} else {
			numbers = append(numbers, both)
		}
	}
	var forms []string
	if len(numbers) > 0 {
		forms = append(forms, notWithin(`[0-9]`)+`(?:00)?(?:`+strings.Join(numbers, "|")+`)(?![0-9])`)
	}
	if len(mails) > 0 {
		forms = append(forms, notWithin(`[0-9A-Za-z._+-]`)+`(?:`+strings.Join(mails, "|")+`)(?![0-9A-Za-z-]|\.[0-9A-Za-z])`)
	}
	return strings.Join(forms, "|")
}

// eraseAnswers removes the person from the stored answers of idempotency keys.
func (s *Service) eraseAnswers(ctx context.Context, p *person) error {
	about := p.texts()
	for n := maxAnswers; n == maxAnswers; {
		err := s.count(ctx, p, nil, func(ctx context.Context) (c Counts, err error) {
			rows, err := s.q.ErasureAnswers(ctx, erasureq.ErasureAnswersParams{
				CompanyID: p.CompanyID, Texts: about, Most: maxAnswers,
			})
			if n = len(rows); err != nil {
				return c, err
			}
			for _, row := range rows {
				text, isChanged, err := p.scrubbed(row)
				if err != nil {
					return c, err
				}
				if !isChanged {
					n = 0 // the remaining rows are found again, and do not contain the person
					continue
				}
				c.Answers++
				if err := s.q.ErasureAnswer(ctx, erasureq.ErasureAnswerParams{
					Response: text, Username: row.Username, Operation: row.Operation, Key: row.Key,
				}); err != nil {
					return c, err
				}
			}
			return c, nil
		})
		if err != nil {
			return fmt.Errorf("erase answers: %w", err)
		}
	}
	return nil
}

// texts returns the texts that an answer about the person may contain.
func (p *person) texts() []string {
	texts := slices.Clone(p.recent)
	for _, address := range p.Recipients {
		texts = append(texts, address)
		if at := phone.AtHome(address); at != "" {
			texts = append(texts, at)
		}
	}
	for _, id := range p.UserIds {
		texts = append(texts, strconv.Quote(id))
	}
	return texts
}

// names are the members of answers that contain the recipient or the text of a message.
var names = []string{"phone_number", "recipient", "user_id", "content", "final_content"}

// scrubbed returns an answer without the person: objects that contain the person, or a task to the person, lose their recipient and text.
func (p *person) scrubbed(answer erasureq.ErasureAnswersRow) (text []byte, isChanged bool, err error) {
	var all any
	d := json.NewDecoder(bytes.NewReader(answer.Response))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		return nil, false, fmt.Errorf("read answer: %w", err)
	}
	if !p.scrub(answer, all) {
		return nil, false, nil
	}
	text, err = json.Marshal(all)
	if err != nil {
		return nil, false, fmt.Errorf("write answer: %w", err)
	}
	return text, true, nil
}

func (p *person) scrub(answer erasureq.ErasureAnswersRow, value any) (isChanged bool) {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			isChanged = p.scrub(answer, one) || isChanged
		}
	case map[string]any:
		for _, one := range value {
			isChanged = p.scrub(answer, one) || isChanged
		}
		if !p.isAbout(answer, value) {
			return isChanged
		}
		for _, name := range names {
			if was, is := value[name].(string); is && was != result.Erased {
				value[name], isChanged = result.Erased, true
			}
		}
	}
	return isChanged
}

// isAbout reports whether an object of an answer contains the person, or a task to the person. Answers to administrators can be about any company.
func (p *person) isAbout(answer erasureq.ErasureAnswersRow, object map[string]any) bool {
	is := func(name string, test func(string) bool) bool {
		text, isText := object[name].(string)
		return isText && test(text)
	}
	if is("task_id", func(id string) bool { return slices.Contains(p.recent, id) }) {
		return true
	}
	if company, says := object["company_no"]; says && company != answer.CompanyNo || !says && !answer.IsOwn {
		return false
	}
	return is("user_id", func(id string) bool { return slices.Contains(p.UserIds, id) }) || is("phone_number", p.isOf) || is("recipient", p.isOf)
}

// eraseRows erases rows of batches.
func (s *Service) eraseRows(ctx context.Context, p *person) error {
	ids, err := s.q.ErasureBatches(ctx, erasureq.ErasureBatchesParams{CompanyID: p.CompanyID})
	if err != nil {
		return fmt.Errorf("find batches: %w", err)
	}
	addresses, digits := p.addresses(), p.digits
	if digits == nil {
		digits = []string{}
	}
	for _, id := range ids {
		for after, n := int64(0), portion; n == portion; {
			rows, err := s.q.ErasureRowCandidates(ctx, erasureq.ErasureRowCandidatesParams{
				BatchID: id, AfterRow: after, Digits: digits, Addresses: addresses, Portion: portion,
			})
			if err != nil {
				return fmt.Errorf("find rows of batch: %w", err)
			}
			n = len(rows)
			var found []int64
			for _, row := range rows {
				if after = row.RowNo; p.isOf(row.Recipient) || slices.Contains(addresses, strings.ToLower(row.Recipient)) {
					found = append(found, row.RowNo)
				}
			}
			if len(found) == 0 {
				continue
			}
			err = s.count(ctx, p, nil, func(ctx context.Context) (c Counts, err error) {
				c.BatchRows, err = s.q.ErasureRows(ctx, erasureq.ErasureRowsParams{BatchID: id, RowNos: found})
				return c, err
			})
			if err != nil {
				return fmt.Errorf("erase rows of batch: %w", err)
			}
		}
	}
	return nil
}

// eraseSubmissions erases the rejected submissions.
func (s *Service) eraseSubmissions(ctx context.Context, p *person) error {
	for after, n := int64(0), portion; n == portion && len(p.digits) > 0; {
		rows, err := s.q.ErasureCandidates(ctx, erasureq.ErasureCandidatesParams{CompanyID: &p.CompanyID, Digits: p.digits, AfterID: after, Portion: portion})
		if err != nil {
			return fmt.Errorf("find submissions: %w", err)
		}
		n = len(rows)
		var ids []int64
		for _, row := range rows {
			if after = row.ID; p.isOf(row.PhoneNumber) {
				ids = append(ids, row.ID)
			}
		}
		err = s.count(ctx, p, nil, func(ctx context.Context) (c Counts, err error) {
			c.Submissions, err = s.q.ErasureSubmissions(ctx, erasureq.ErasureSubmissionsParams{Ids: ids, Erased: result.Erased})
			return c, err
		})
		if err != nil {
			return fmt.Errorf("erase submissions: %w", err)
		}
	}
	return nil
}

// eraseRest erases send-once messages, and jobs that selected the tasks of a number.
func (s *Service) eraseRest(ctx context.Context, p *person) error {
	return s.count(ctx, p, nil, func(ctx context.Context) (c Counts, err error) {
		c.SentOnce, err = s.q.ErasureOnce(ctx, erasureq.ErasureOnceParams{CompanyID: p.CompanyID, UserIds: p.UserIds, Pseudonym: p.pseudonym})
		if err != nil {
			return c, fmt.Errorf("erase messages that are sent once: %w", err)
		}
		jobs, err := s.q.ErasureJobs(ctx, p.CompanyID)
		if err != nil {
			return c, fmt.Errorf("find jobs: %w", err)
		}
		var ids []int64
		keys := []string{}
		for _, j := range jobs {
			if p.isOf(j.PhoneNumber) {
				ids, keys = append(ids, j.ID), append(keys, strconv.FormatInt(j.ID, 10))
			}
		}
		if c.Jobs, err = s.q.ErasureJob(ctx, ids); err != nil {
			return c, fmt.Errorf("erase jobs: %w", err)
		}
		c.Changes, err = s.eraseAudit(ctx, p, keys)
		return c, err
	})
}
