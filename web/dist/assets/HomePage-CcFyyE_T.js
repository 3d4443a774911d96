<<<<<<<< HEAD:web/dist/assets/HomePage-CcFyyE_T.js
import{F as e,L as t,M as n,et as r,jt as i,k as a,o,w as s}from"./_plugin-vue_export-helper-25Zox6zP.js";import{t as c}from"./EmptyState-B2XE2WQR.js";var l={class:`card`},u=t({__name:`HomePage`,setup(t){return(t,u)=>(r(),n(s,null,[u[0]||=a(`h1`,{class:`visually-hidden`},`LKSMS`,-1),a(`div`,l,[e(c,{title:i(o)(`account.nothing.title`),text:i(o)(`account.nothing.text`)},null,8,[`title`,`text`])])],64))}});export{u as default};
========
import{F as e,L as t,M as n,et as r,jt as i,k as a,o,w as s}from"./_plugin-vue_export-helper-Cmt5sKtX.js";import{t as c}from"./EmptyState-JUvQ-1d8.js";var l={class:`card`},u=t({__name:`HomePage`,setup(t){return(t,u)=>(r(),n(s,null,[u[0]||=a(`h1`,{class:`visually-hidden`},`LKSMS`,-1),a(`div`,l,[e(c,{title:i(o)(`account.nothing.title`),text:i(o)(`account.nothing.text`)},null,8,[`title`,`text`])])],64))}});export{u as default};
>>>>>>>> events:web/dist/assets/HomePage-7y3ZqOV3.js
