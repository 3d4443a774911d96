<<<<<<<< HEAD:web/dist/assets/FilterItem-DgmqpG88.js
import{E as e,Ot as t,P as n,Rt as r,Vt as i,Z as a,at as o,et as s,k as c,t as l}from"./_plugin-vue_export-helper-D8HXXFW7.js";var u=[`for`],d=l(n({__name:`FilterItem`,props:{label:{},width:{default:`medium`}},setup(n){let l=o();return(o,d)=>(a(),c(`div`,{class:r([`item`,n.width])},[e(`label`,{for:t(l)},i(n.label),9,u),s(o.$slots,`default`,{id:t(l)},void 0,!0)],2))}}),[[`__scopeId`,`data-v-d59b553a`]]);export{d as t};
========
import{E as e,Ot as t,P as n,Rt as r,Vt as i,Z as a,at as o,et as s,k as c,t as l}from"./_plugin-vue_export-helper-UurzBkj_.js";var u=[`for`],d=l(n({__name:`FilterItem`,props:{label:{},width:{default:`medium`}},setup(n){let l=o();return(o,d)=>(a(),c(`div`,{class:r([`item`,n.width])},[e(`label`,{for:t(l)},i(n.label),9,u),s(o.$slots,`default`,{id:t(l)},void 0,!0)],2))}}),[[`__scopeId`,`data-v-d59b553a`]]);export{d as t};
>>>>>>>> w-dims:web/dist/assets/FilterItem-B7Dq-nRg.js
